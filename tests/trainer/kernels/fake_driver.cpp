// A libcuda.so.1 without a GPU: the real bindings load it, and what they pass to cuLaunchKernel is handed to the test.
#include <cstring>
#include <dlfcn.h>

typedef void (*Launcher)(const char* kernel, int grid, int block, void* stream, void** arguments);

static Launcher launcher;
static void* context;
static int version = 13000;
static char names[64][64];
static int n_names;

extern "C" {

void fake_launcher(Launcher function) { launcher = function; }
void fake_version(int number) { version = number; }
void* fake_context() { return context; }

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* out) { return *out = version, 0; }
int cuGetErrorString(int, const char** out) { return *out = "the fake driver says no", 0; }
int cuGetErrorName(int, const char** out) { return *out = "CUDA_ERROR_FAKE", 0; }
int cuDeviceGet(int* out, int ordinal) { return *out = ordinal, 0; }
int cuDevicePrimaryCtxRetain(void** out, int device) { return *out = (void*)(0x100l + device), 0; }
int cuCtxGetCurrent(void** out) { return *out = context, 0; }
int cuCtxSetCurrent(void* given) { return context = given, 0; }

int cuLibraryLoadData(void** out, const void* code, void*, void*, unsigned, void*, void*, unsigned) {
    if (std::memcmp(code, "\177ELF", 4)) return 209;  // no binary for GPU
    return *out = (void*)code, 0;
}

int cuLibraryGetKernel(void** out, void*, const char* name) {
    std::strncpy(names[n_names], name, sizeof names[0] - 1);
    return *out = names[n_names++], 0;
}

int cuKernelGetFunction(void** out, void* kernel) { return *out = kernel, 0; }

int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void* stream, void** arguments, void** extra) {
    if (!context || gy != 1 || gz != 1 || by != 1 || bz != 1 || shared || extra) return 1;
    return launcher((const char*)function, (int)gx, (int)bx, stream, arguments), 0;
}

int cuGetProcAddress_v2(const char* name, void** out, int, unsigned long long, int* status) {
    *out = dlsym(RTLD_DEFAULT, name);
    Dl_info self;
    if (dladdr((void*)&cuInit, &self)) *out = dlsym(dlopen(self.dli_fname, RTLD_NOW), name);
    if (status) *status = *out ? 0 : 1;
    return *out ? 0 : 500;
}

int cuGetProcAddress(const char* name, void** out, int v, unsigned long long flags) {
    return cuGetProcAddress_v2(name, out, v, flags, nullptr);
}
}
