"""The mathematics behind pictures, without matplotlib."""
