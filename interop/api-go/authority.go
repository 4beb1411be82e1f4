package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"
)

// An authority is a certificate authority that the network does not own.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// authority makes an authority; the same name gives the same one each time.
func (n *network) authority(name string) *authority {
	if known, ok := n.authorities[name]; ok {
		return known
	}
	key := newKey()
	own := template(name)
	own.IsCA, own.BasicConstraintsValid, own.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	made := &authority{signed(own, own, &key.PublicKey, key), key}
	if n.authorities == nil {
		n.authorities = map[string]*authority{}
	}
	n.authorities[name] = made
	return made
}

func (a *authority) pem() string { return certificatePEM(a.certificate) }

// issue makes a certificate for clients.
func (a *authority) issue(name string) tls.Certificate {
	key := newKey()
	leaf := template(name)
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	made := signed(leaf, a.certificate, &key.PublicKey, a.key)
	return tls.Certificate{Certificate: [][]byte{made.Raw}, PrivateKey: key, Leaf: made}
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

// request is a signing request for key.
func request(name string, key *ecdsa.PrivateKey) string {
	raw, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: raw}))
}

// pair is a certificate chain and its key.
func pair(chain string, key *ecdsa.PrivateKey) tls.Certificate {
	return tls.Certificate{Certificate: certificates(chain), PrivateKey: key}
}

func template(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		panic(err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

func signed(of, by *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) *x509.Certificate {
	raw, err := x509.CreateCertificate(rand.Reader, of, by, public, key)
	if err != nil {
		panic(err)
	}
	made, err := x509.ParseCertificate(raw)
	if err != nil {
		panic(err)
	}
	return made
}

func certificatePEM(certificate *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}))
}
