"""Functions of elements: of one array, of two, of an array and a number."""
