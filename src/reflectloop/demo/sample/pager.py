"""Cuts a list into pages."""


def pages(items, size):
    """All pages, the last one shorter where the items run out."""
    count = len(items) // size
    return [items[number * size : (number + 1) * size] for number in range(count)]
