"""`python -m gentus`, which launchers of several processes ask for."""

from gentus.cli import main

if __name__ == "__main__":
    main()
