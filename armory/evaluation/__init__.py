"""Measuring retrieval: metrics, labelled sets, runs and reports."""
