"""The data pipeline over the same ledgers, in PySpark.

Its stages arrive with the next release; the package marks their place.
"""
