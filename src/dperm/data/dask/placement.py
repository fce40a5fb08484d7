"""Where Dask makes partitions: wishes for workers, which must not outlive them.

Dask keeps the wish for a worker with the task. When all workers are gone and new ones come, these are not
offered the tasks that wish for an old one, although any would do: such tasks wait for ever. So wishes are
lifted when partitions are made, and until then tasks that wait are offered to the new workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Prospects:
    """Whether partitions that are waited for can be made at all.

    Attributes
    ----------
    n_workers : int
        Workers that take tasks.
    n_stuck : int
        Tasks that none of them may run.
    forgotten : collection of str
        Partitions that the scheduler does not know, or no longer.
    """

    n_workers: int
    n_stuck: int
    forgotten: frozenset[str]


class Placement:
    """Wishes for workers in the tasks of partitions.

    Parameters
    ----------
    client : distributed.Client
    name : str
        What the keys of the partitions begin with.
    """

    def __init__(self, client: Any, name: str) -> None:
        self._client, self._name = client, name
        self._may_ask = True
        self._ask(_prospects(), [])

    def wish(self, worker: str | None) -> dict[str, Any]:
        """Arguments of `persist`; no wish where it could not be lifted."""
        if worker is None or not self._may_ask:
            return {}
        return {"workers": [worker], "allow_other_workers": True}

    def lift(self, keys: Sequence[str]) -> None:
        """Forget where these partitions, and what they are made of, were wished for."""
        self._ask(_lift(), keys)

    def prospects(self, keys: Sequence[str]) -> Prospects:
        """Whether these partitions can be made; tasks whose wishes nobody meets any more go to others."""
        found = self._ask(_prospects(), keys)
        if found is None:
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
            states = self._client.sync(self._client.scheduler.get_task_status, keys=list(keys))
            forgotten = [key for key, state in states.items() if state is None]
            found = len(workers), list(states.values()).count("no-worker"), forgotten
        n_workers, n_stuck, forgotten = found
        return Prospects(n_workers, n_stuck, frozenset(forgotten))

    def _ask(self, function: Callable[..., Any], keys: Sequence[str]) -> Any:
        """What the scheduler answers; None where it runs no functions of clients."""
        if not self._may_ask:
            return None
        try:
            return self._client.run_on_scheduler(function, self._name, list(keys))
        except (ValueError, AttributeError):  # forbidden by its configuration, or of another kind
            self._may_ask = False
            return None


# The scheduler need not have this package. A function inside a function travels as code, not by its name.


def _lift() -> Callable[..., None]:
    def lift(name: str, keys: list[str], dask_scheduler: Any) -> None:
        todo = [dask_scheduler.tasks[key] for key in keys if key in dask_scheduler.tasks]
        seen = set(todo)
        while todo:
            task = todo.pop()
            if task.loose_restrictions:
                task.worker_restrictions = None
            new = [each for each in task.dependencies if each not in seen]
            seen.update(new)
            todo.extend(new)

    return lift


def _prospects() -> Callable[..., tuple[int, int, list[str]]]:
    def prospects(name: str, keys: list[str], dask_scheduler: Any) -> tuple[int, int, list[str]]:
        def is_needed(task: Any) -> bool:
            todo, seen = [task], {task}
            while todo:
                each = todo.pop()
                if str(each.key).startswith(name):
                    return True
                new = [other for other in each.dependents if other not in seen]
                seen.update(new)
                todo.extend(new)
            return False

        waiting = [task for task in dask_scheduler.unrunnable if is_needed(task)]
        n_workers = len(dask_scheduler.running)
        if n_workers:  # each may go to a worker that it did not wish for, but has to be offered anew
            again = {task.key: "processing" for task in waiting}
            dask_scheduler.transitions(again, stimulus_id=f"placement-{name}")
        n_stuck = sum(task.state == "no-worker" for task in waiting)
        return n_workers, n_stuck, [key for key in keys if key not in dask_scheduler.tasks]

    return prospects
