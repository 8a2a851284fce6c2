"""`python -m cavity` is the command line, also where the folder of commands is not on the path."""

from cavity.cli import main

if __name__ == "__main__":
    main()
