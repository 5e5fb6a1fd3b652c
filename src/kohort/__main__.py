"""``python -m kohort``, the same as the command ``kohort``."""

from kohort.control.cli import main

if __name__ == "__main__":
    main()
