"""What tests share: comparisons, the ladder, lists, pages."""
