"""From events to answers: tables of what groups did, made by Spark.

It reads data, never the broker's code.
"""
