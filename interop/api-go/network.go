package main

import (
	"errors"
	"fmt"
	"strings"

	management_api "github.com/openziti/edge-api/rest_management_api_client"
	"github.com/openziti/edge-api/rest_model"
)

// A network is the one under test: its management API for an administrator and without a login,
// and the entities that trials need. An entity that cannot be made is a panic, and so a failure of
// the check that needs the entity.
type network struct {
	*controller
	admin, nobody *management_api.ZitiEdgeManagement
	prefix        string
	made          []func() error
	authorities   map[string]*authority
}

// name is a name that only this run uses.
func (n *network) name(of string) string {
	return n.prefix + "-" + strings.TrimPrefix(of, n.prefix+"-")
}

func (n *network) names(of ...string) []string {
	var names []string
	for _, name := range of {
		names = append(names, n.name(name))
	}
	return names
}

func (n *network) attributes(of ...string) *rest_model.Attributes {
	return ptr(rest_model.Attributes(n.names(of...)))
}

// roles are roles of this run: `@id` as it is, `#attribute` with the run's prefix.
func (n *network) roles(of ...string) rest_model.Roles {
	var roles rest_model.Roles
	for _, role := range of {
		if attribute, ok := strings.CutPrefix(role, "#"); ok {
			role = "#" + n.name(attribute)
		}
		roles = append(roles, role)
	}
	return roles
}

// tags are what trials tag their entities with, and a mark.
func tags(marks ...string) *rest_model.Tags {
	tags := rest_model.SubTags{"run": "generated", "flag": true}
	for _, mark := range marks {
		tags[mark] = mark
	}
	return &rest_model.Tags{SubTags: tags}
}

func appData() *rest_model.Tags {
	return &rest_model.Tags{SubTags: rest_model.SubTags{"size": 3, "nested": map[string]any{"deep": "yes"}}}
}

func hostConfig(port int) map[string]any {
	return map[string]any{"protocol": "tcp", "address": "127.0.0.1", "port": port}
}

func interceptConfig() map[string]any {
	return map[string]any{
		"protocols": []string{"tcp"}, "addresses": []string{"generated.example"},
		"portRanges": []map[string]any{{"low": 80, "high": 81}},
	}
}

// digest is a text of so many hexadecimal digits.
func digest(length int) string { return strings.Repeat("0a", length/2) }

// keep is the id of an entity that was made; the entity is deleted at the end of the run.
func keep[C, U, P any](n *network, of kind[C, U, P], body C) string {
	id, err := of.create(body)
	if err != nil {
		panic(fmt.Sprintf("%s cannot be made: %s", of.name, describe(err)))
	}
	n.made = append(n.made, func() error { return of.remove(id) })
	return id
}

func (n *network) identity(name string) string {
	return keep(n, identities(n.admin), &rest_model.IdentityCreate{
		Name: ptr(n.name("for-" + name)), Type: ptr(rest_model.IdentityTypeDefault), IsAdmin: ptr(false), RoleAttributes: n.attributes("for-" + name),
	})
}

func (n *network) service(name string, configs ...string) string {
	return keep(n, services(n.admin), &rest_model.ServiceCreate{
		Name: ptr(n.name("for-" + name)), EncryptionRequired: ptr(true), Configs: configs, RoleAttributes: n.names("for-" + name),
	})
}

func (n *network) edgeRouter(name string) string {
	return keep(n, edgeRouters(n.admin), &rest_model.EdgeRouterCreate{Name: ptr(n.name("for-" + name))})
}

func (n *network) terminator(name, service, router string) string {
	return keep(n, terminators(n.admin), &rest_model.TerminatorCreate{
		Address: ptr(n.name("for-" + name)), Binding: ptr("transport"), Router: &router, Service: &service,
	})
}

func (n *network) postureCheck(name string) string {
	body := &rest_model.PostureCheckDomainCreate{Domains: []string{"example.com"}}
	body.SetName(ptr(n.name("for-" + name)))
	return keep(n, postureChecks(n.admin), rest_model.PostureCheckCreate(body))
}

func (n *network) authPolicy(name string) string {
	return keep(n, authPolicies(n.admin), &rest_model.AuthPolicyCreate{
		Name: ptr(n.name("for-" + name)),
		Primary: &rest_model.AuthPolicyPrimary{
			Cert:   &rest_model.AuthPolicyPrimaryCert{Allowed: ptr(true), AllowExpiredCerts: ptr(true)},
			ExtJWT: &rest_model.AuthPolicyPrimaryExtJWT{Allowed: ptr(true), AllowedSigners: []string{}},
			Updb: &rest_model.AuthPolicyPrimaryUpdb{
				Allowed: ptr(true), LockoutDurationMinutes: ptr(int64(0)), MaxAttempts: ptr(int64(0)), MinPasswordLength: ptr(int64(5)),
				RequireMixedCase: ptr(false), RequireNumberChar: ptr(false), RequireSpecialChar: ptr(false),
			},
		},
		Secondary: &rest_model.AuthPolicySecondary{RequireTotp: ptr(false)},
	})
}

func (n *network) signer(name string) string {
	return keep(n, externalJWTSigners(n.admin), &rest_model.ExternalJWTSignerCreate{
		Name: ptr(n.name("for-" + name)), Audience: ptr("weft"), Enabled: ptr(true),
		Issuer: ptr("https://" + n.name(name) + ".example"), CertPem: ptr(n.authority("signer-" + name).pem()), Kid: ptr(n.name(name)),
	})
}

func (n *network) configType(name string) string {
	found, err := configTypes(n.admin).list(query{filter: ptr(fmt.Sprintf("name = %q", name))})
	if err != nil {
		panic(err)
	}
	return idsOf(found.items)[0]
}

// routerConfigType is the id of a new type whose configs routers take.
func (n *network) routerConfigType(name string) string {
	return keep(n, configTypes(n.admin), &rest_model.ConfigTypeCreate{Name: ptr(n.name("for-" + name)), Target: ptr("router")})
}

func (n *network) config(name, of string, data any) string {
	return keep(n, configs(n.admin), &rest_model.ConfigCreate{
		Name: ptr(n.name("for-" + name)), ConfigTypeID: &of, Data: data,
	})
}

// remove deletes everything that was made, the newest first.
func (n *network) remove() error {
	for at := len(n.made) - 1; at >= 0; at-- {
		err := n.made[at]()
		if err != nil && refused(err, 404, "NOT_FOUND", "") != nil { // some are gone with others
			return errors.New(describe(err))
		}
	}
	return nil
}

// created is the id in the answer to a create operation.
func created[A interface {
	GetPayload() *rest_model.CreateEnvelope
}](answer A, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return answer.GetPayload().Data.ID, nil
}
