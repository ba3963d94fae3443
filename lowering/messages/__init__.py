"""What is told: arguments that do not fit, MXNet's words for what is ours, progress."""
