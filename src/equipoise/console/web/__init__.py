"""The web console: pages that render `views`, live by server-sent events. It is a Kafka client, never part of a broker.

`lanes`, `owners`, `timeline` and `pages/` are pure: views in, values and HTML out. `stream` and `live` push what
changed. `guard` decides who may ask. `app` has the routes, `source` brings the views, `serving` runs it all. `static/`
draws in the browser, and makes no sentence of a reason: words stay in Python.
"""
