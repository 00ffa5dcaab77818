"""The proving ground: real brokers and real clients, started by one command, asked the same questions as ours."""
