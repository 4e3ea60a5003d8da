"""python -m headtohead.cli: the same as `h2h`, in a process that another program starts."""

import signal

from headtohead.cli import main

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what a shell starts in the background
    main()
