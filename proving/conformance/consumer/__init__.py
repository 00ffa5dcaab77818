"""The comparison for `consumer` groups (KIP-848): its language, what is seen of such groups, and its scripts."""
