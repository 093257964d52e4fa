"""Many runs: planned, several at a time in processes of their own, stopped and continued, none repeated.

plan -> runner (one child process per run) -> a record on disk for each
"""
