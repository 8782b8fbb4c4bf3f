"""`make_task`: the task that a run trains on."""

from __future__ import annotations

from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.settings.task_constants import TEXT_TASK
from rlscaling.trainer.tasks.arithmetic import Addition, HiddenSort, JoinedTasks, Modular, Sort
from rlscaling.trainer.tasks.task import Task


def make_task(config: TrainConfig) -> Task:
    """Return the task that a run trains on.

    Examples
    --------
    >>> from rlscaling.trainer import make_config
    >>> from rlscaling.trainer.tasks.arithmetic import spell
    >>> task = make_task(make_config(n_digits=4))
    >>> prompt = task.train_prompt(0)
    >>> spell(prompt.ids, task), prompt.answer
    ('1818=', '1188')
    """
    if config.task == TEXT_TASK:
        from rlscaling.trainer.tasks.text import TextTask

        return TextTask(config)
    tasks = [_TASKS[name](config) for name in config.domains]
    return tasks[0] if len(tasks) == 1 else JoinedTasks(tasks)


_TASKS = {task.name: task for task in (Sort, HiddenSort, Addition, Modular)}
