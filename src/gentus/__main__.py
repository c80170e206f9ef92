"""The program `gentus`, also as `python -m gentus`: Ctrl-C is not a traceback even while it is imported."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from gentus.app.cli.main import main as run

        run()
    except (KeyboardInterrupt, RuntimeError) as error:
        # Stopped while it makes a class, Python 3.11 raises a RuntimeError instead.
        if isinstance(error, RuntimeError) and not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        print("Stopped.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
