"""`Recent`: what was used least recently goes."""

import threading

from symjax_nnvm.recent import Recent


def test_what_was_used_least_recently_goes():
    kept: Recent[str, int] = Recent(2)
    kept["a"] = 1
    kept["b"] = 2
    assert kept.get("a") == 1
    kept["c"] = 3
    assert (kept.get("b"), kept.items()) == (None, [("a", 1), ("c", 3)])
    kept["a"] = 4
    kept["d"] = 5
    assert kept.items() == [("a", 4), ("d", 5)]
    assert (kept.setdefault("a", 9), kept.setdefault("e", 6)) == (4, 6)
    assert kept.items() == [("a", 4), ("e", 6)]
    every: Recent[int, int] = Recent(None)
    for number in range(1000):
        every[number] = number
    assert len(every) == 1000


def test_threads_lose_nothing():
    kept: Recent[int, int] = Recent(8)
    wrong: list[object] = []

    def use(first: int) -> None:
        for turn in range(5000):
            number = (first + turn) % 16
            kept[number] = number
            if kept.get(number) not in (number, None):
                wrong.append(number)
            if kept.get(first) not in (first, None):
                wrong.append(first)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(kept) == 8
