"""python -m headtohead.cli: the same as `h2h`."""

from headtohead.cli import main

if __name__ == "__main__":
    main()
