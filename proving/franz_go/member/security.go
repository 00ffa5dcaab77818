package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const lifeOfToken = time.Hour

// How a member reaches a secured broker, as proving/members/security.py has it.
type security struct {
	BootstrapServers string `json:"bootstrap_servers"`
	CAFile           string `json:"ca_file"`
	Mechanism        *string
	User             *string
	Password         *string
	Certificate      *string
}

// Where the brokers are, and how to come in. Without security: the address of the host, in plain text.
func (m *member) reach(bootstrapServers string) ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.ClientID("franz-go")}
	known := m.Security
	if known == nil {
		return append(options, kgo.SeedBrokers(bootstrapServers)), nil
	}
	context, err := known.tls()
	if err != nil {
		return nil, err
	}
	options = append(options, kgo.SeedBrokers(known.BootstrapServers), kgo.DialTLSConfig(context))
	if known.Mechanism != nil {
		options = append(options, kgo.SASL(known.mechanism()))
	}
	return options, nil
}

func (s *security) tls() (*tls.Config, error) {
	text, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	host, _, err := net.SplitHostPort(s.BootstrapServers)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: trusted, ServerName: host}
	if s.Certificate != nil {
		pair, err := tls.LoadX509KeyPair(*s.Certificate, *s.Certificate)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (s *security) mechanism() sasl.Mechanism {
	login := scram.Auth{User: *s.User, Pass: *s.Password}
	switch *s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: *s.User, Pass: *s.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return login.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return login.AsSha512Mechanism()
	}
	return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
		return oauth.Auth{Token: s.token()}, nil
	})
}

// Without a signature.
func (s *security) token() string {
	now := time.Now()
	head := fields{"alg": "none"}
	claims := fields{"sub": *s.User, "iat": now.Unix(), "exp": now.Add(lifeOfToken).Unix()}
	return encoded(head) + "." + encoded(claims) + "."
}

func encoded(part fields) string {
	text, err := json.Marshal(part)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}
