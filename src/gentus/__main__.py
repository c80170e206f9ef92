"""`python -m gentus`, which launchers of several processes ask for."""

from gentus.app.cli.main import main

if __name__ == "__main__":
    main()
