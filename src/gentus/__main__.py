"""The program `gentus`, also as `python -m gentus`: Ctrl-C is not a traceback even while it is imported."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from gentus.app.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
