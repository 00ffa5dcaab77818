"""Connections to brokers: versions from ApiVersions, requests and answers in order, a pool by address."""
