"""Tests of the benchmarks' own arithmetic; what they measure is judged by running them."""
