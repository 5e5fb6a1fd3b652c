"""From events to answers: tables of group activity, made by Spark.

It reads data, never the broker's code.
"""
