"""How members stay in a `consumer` group, leave it and come back: sessions, timers, removal, static members."""
