"""The task that a run trains on."""

from __future__ import annotations

from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.settings.task_constants import TEXT_TASK
from rlscaling.trainer.tasks.arithmetic import _Addition, _Both, _HiddenSort, _Modular, _Sort
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
    parts = [_PARTS[name](config) for name in config.domains]
    return parts[0] if len(parts) == 1 else _Both(parts)


_PARTS = {part.name: part for part in (_Sort, _HiddenSort, _Addition, _Modular)}
