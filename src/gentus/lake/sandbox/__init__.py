"""Sources in; results of reading them in other processes out. A bad file costs itself, never the scan.

No native parser runs in the process that asked. Every file has a limit of time and of memory. It imports
`reader`.
"""
