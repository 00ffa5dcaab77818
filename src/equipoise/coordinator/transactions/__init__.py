"""The transaction coordinator: transactional ids, their producers' epochs, and how a transaction ends."""
