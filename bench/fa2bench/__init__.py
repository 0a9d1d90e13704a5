"""The parts of bench/forward.py."""
