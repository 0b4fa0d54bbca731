"""Pages whose blocks no test runs yet. A page that is not listed here has each block run or excused."""

UNCOVERED: tuple[str, ...] = ()
