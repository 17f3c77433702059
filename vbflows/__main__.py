"""``python -m vbflows`` is the command ``vbflows``."""

from flows.entry import main

if __name__ == "__main__":
    main()
