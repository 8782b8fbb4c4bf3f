// A program that repeats recorded launches on buffers of exactly their size, for the sanitizers. See recording.py.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>

struct Entry {
    const char* name;
    const char* (*launch)(int grid, int block, int order, void** args);
};

struct Launch {
    char name[64];
    std::int32_t grid, block, arguments;
};

struct Argument {
    std::int64_t size;   // bytes; -1: a null pointer
    std::int32_t scalar; // passed as it is; else the address of its copy is
    std::int32_t offset; // of that address from a 16-byte boundary
};

template <typename T>
static bool take(std::ifstream& in, T& value) {
    return bool(in.read(reinterpret_cast<char*>(&value), sizeof value));
}

static int replay(const char* path, const Entry* entries, int n_entries) {
    std::ifstream in(path, std::ios::binary);
    int done = 0;
    for (Launch launch; take(in, launch); done++) {
        std::vector<char*> owned;
        std::vector<void*> values((size_t)launch.arguments), pointers((size_t)launch.arguments);
        for (int i = 0; i < launch.arguments; i++) {
            Argument argument;
            if (!take(in, argument)) return 2;
            char* data = nullptr;
            if (argument.size >= 0) {
                owned.push_back(static_cast<char*>(std::malloc((size_t)(argument.size + argument.offset))));
                data = owned.back() + argument.offset;
                in.read(data, argument.size);
            }
            values[(size_t)i] = data;
            pointers[(size_t)i] = argument.scalar ? static_cast<void*>(data) : &values[(size_t)i];
        }
        for (int e = 0; e < n_entries; e++)
            if (!std::strcmp(entries[e].name, launch.name))
                if (const char* error = entries[e].launch(launch.grid, launch.block, 0, pointers.data())) {
                    std::fprintf(stderr, "%s: %s\n", launch.name, error);
                    return 3;
                }
        for (char* data : owned) std::free(data);
    }
    std::printf("%d launches\n", done);
    return 0;
}
