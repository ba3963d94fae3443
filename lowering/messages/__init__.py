"""This package words messages: errors for arguments that do not fit, hints for users of MXNet, progress."""
