"""Trials on clusters: records are written without a pause while brokers are killed, stopped, hung and moved, and
Spark's workers and executors killed; then it is counted what each reader has lost, and what it has read twice.

python -m proving clusters [--rounds 5]
"""
