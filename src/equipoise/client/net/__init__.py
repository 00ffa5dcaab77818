"""Connections to brokers: versions agreed on by ApiVersions, requests and answers in order, a pool by address."""
