import unittest

from pager import pages


class Pages(unittest.TestCase):
    def test_full_pages(self):
        self.assertEqual(pages([1, 2, 3, 4], 2), [[1, 2], [3, 4]])

    def test_the_last_page_is_shown(self):
        self.assertEqual(pages([1, 2, 3, 4, 5], 2), [[1, 2], [3, 4], [5]])


if __name__ == "__main__":
    unittest.main()
