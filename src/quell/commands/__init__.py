"""One module per subcommand, each with `main(arguments) -> exit code`."""
