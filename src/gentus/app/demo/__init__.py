"""The demo: a small lake of real tables (`lake`), indexed and searched on the console (`run`)."""
