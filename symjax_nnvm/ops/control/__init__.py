"""Control flow: operators that hold subgraphs."""
