"""The four gates that every output passes: rules, proof, insight, retention.

Pure functions; nothing here runs commands.
"""
