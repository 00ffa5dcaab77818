"""Attacks and their tests. Those without a folder are in tests/broker.

| attack | test |
|---|---|
| plain text, HTTP, old versions on a TLS port | test_tls: test_plain_text_*, test_old_versions_are_refused |
| TLS on a plain port | test_bad_input: test_a_bad_frame_ends_its_connection_and_the_log_says_why |
| connections that never speak; guesses | attack/test_secured_crowds |
| a trickled handshake, renegotiation, a slow reader | test_tls_attacks |
| certificates: expired, other host, wildcard, common name, no authority, purpose | client/test_certificates |
| mutual TLS: no certificate, another authority | test_tls: test_mutual_tls_*; client/test_secured_connection |
| odd subjects | security/test_principals: test_a_subject_is_written_as_java_writes_it |
| a name that no rule maps | test_tls: test_rules_map_*; test_tls_attacks: test_a_request_behind_the_handshake_* |
| requests, tokens and versions out of order | test_sasl: what is refused; security/test_authentication |
| requests behind a token | test_sasl: test_a_request_behind_the_last_token_* |
| mechanisms that are not offered, large frames | test_sasl |
| PLAIN: wrong parts, odd names, another's id | security/test_mechanisms; test_sasl |
| SCRAM: wrong proofs, replay, unknown users | security/test_mechanisms; test_sasl |
| a hostile broker | client/test_secured_connection: test_a_hostile_broker_gets_no_proof |
| the time of a comparison | test_login_attacks |
| OAUTHBEARER: forged tokens, unknown keys, large tokens, a broken issuer | test_token_attacks; security/test_jwt |
| re-authentication as another, too soon, too late | test_sasl: re-authentication; security/test_authentication |
| a forged principal | test_sasl: test_neither_client_id_*; attack/test_acl_attacks |
| patterns, implied operations, names that leak, internal topics, removed ACLs | attack/test_acl_attacks |
| ACLs beside a simple model | security/test_acls_property |
| bombs, wrong counts, large arrays | attack/test_attacks; test_bad_input; client/test_row_bombs |
| words that spoil a log | test_login_attacks: test_nothing_that_a_client_sends_spoils_the_log |
| secrets in logs and elsewhere | test_sasl: test_no_password_is_in_the_log; security/test_secrets; spark/test_secrets |
| users' file: readable, missing, half-written, empty | test_sasl: users; test_secured_serve |
| a certificate before its key | test_tls: test_a_renewed_certificate_*; test_secured_serve |
| kills between answer and restart | crash/test_security_kill |
"""
