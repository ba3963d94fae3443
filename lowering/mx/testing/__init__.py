"""What `mx.test_utils` offers beside the checks of networks: comparisons, numbers by chance, statistics, data sets."""
