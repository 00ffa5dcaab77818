"""Scripts of what happens between members and a coordinator: commands, and below each what the system says."""
