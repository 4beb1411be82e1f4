package main

import "github.com/openziti/edge-api/rest_model"

// A posture check's type and what its entities are made of.
type postureKind struct {
	name   string
	bodies bodies[rest_model.PostureCheckCreate, rest_model.PostureCheckUpdate, rest_model.PostureCheckPatch]
}

// The members of the create and update bodies of every type.
type postureCommon interface {
	SetName(*string)
	SetRoleAttributes(*rest_model.Attributes)
	SetTags(*rest_model.Tags)
}

// postureBodies are the types of posture checks, each with all of its own members.
func postureBodies(n *network) []postureKind {
	windows := []*rest_model.OperatingSystem{{Type: ptr(rest_model.OsTypeWindows), Versions: []string{">=10.0.0 <11.0.0"}}}
	linux := []*rest_model.OperatingSystem{{Type: ptr(rest_model.OsTypeLinux), Versions: []string{"6.1.0"}}}
	process := func(path string) *rest_model.Process {
		return &rest_model.Process{OsType: ptr(rest_model.OsTypeLinux), Path: &path, Hashes: []string{digest(128)}, SignerFingerprint: digest(40)}
	}
	processes := func(path string) []*rest_model.ProcessMulti {
		return []*rest_model.ProcessMulti{{
			OsType: ptr(rest_model.OsTypeWindows), Path: &path, Hashes: []string{digest(128)}, SignerFingerprints: []string{digest(40)},
		}}
	}
	return []postureKind{
		postureOf(n, "OS", "operatingSystems",
			func() rest_model.PostureCheckCreate {
				return &rest_model.PostureCheckOperatingSystemCreate{OperatingSystems: windows}
			},
			func() rest_model.PostureCheckUpdate {
				return &rest_model.PostureCheckOperatingSystemUpdate{OperatingSystems: linux}
			},
			&rest_model.PostureCheckOperatingSystemPatch{OperatingSystems: linux}),
		postureOf(n, "DOMAIN", "domains",
			func() rest_model.PostureCheckCreate {
				return &rest_model.PostureCheckDomainCreate{Domains: []string{"example.com", "example.org"}}
			},
			func() rest_model.PostureCheckUpdate {
				return &rest_model.PostureCheckDomainUpdate{Domains: []string{"example.net"}}
			},
			&rest_model.PostureCheckDomainPatch{Domains: []string{"example.net"}}),
		postureOf(n, "MAC", "macAddresses",
			func() rest_model.PostureCheckCreate {
				return &rest_model.PostureCheckMacAddressCreate{MacAddresses: []string{"001122334455", "66778899aabb"}}
			},
			func() rest_model.PostureCheckUpdate {
				return &rest_model.PostureCheckMacAddressUpdate{MacAddresses: []string{"001122334455"}}
			},
			&rest_model.PostureCheckMacAddressPatch{MacAddresses: []string{"ccddeeff0011"}}),
		postureOf(n, "MFA", "timeoutSeconds",
			func() rest_model.PostureCheckCreate {
				return &rest_model.PostureCheckMfaCreate{PostureCheckMfaProperties: rest_model.PostureCheckMfaProperties{
					IgnoreLegacyEndpoints: true, PromptOnUnlock: true, PromptOnWake: true, TimeoutSeconds: 600,
				}}
			},
			func() rest_model.PostureCheckUpdate {
				return &rest_model.PostureCheckMfaUpdate{PostureCheckMfaProperties: rest_model.PostureCheckMfaProperties{TimeoutSeconds: -1}}
			},
			&rest_model.PostureCheckMfaPatch{PostureCheckMfaPropertiesPatch: rest_model.PostureCheckMfaPropertiesPatch{TimeoutSeconds: ptr(int64(90))}}),
		postureOf(n, "PROCESS", "process",
			func() rest_model.PostureCheckCreate {
				return &rest_model.PostureCheckProcessCreate{Process: process("/usr/bin/one")}
			},
			func() rest_model.PostureCheckUpdate {
				return &rest_model.PostureCheckProcessUpdate{Process: process("/usr/bin/two")}
			},
			&rest_model.PostureCheckProcessPatch{Process: process("/usr/bin/three")}),
		postureOf(n, "PROCESS_MULTI", "processes",
			func() rest_model.PostureCheckCreate {
				return &rest_model.PostureCheckProcessMultiCreate{Semantic: ptr(rest_model.SemanticAllOf), Processes: processes(`C:\one.exe`)}
			},
			func() rest_model.PostureCheckUpdate {
				return &rest_model.PostureCheckProcessMultiUpdate{Semantic: ptr(rest_model.SemanticAnyOf), Processes: processes(`C:\two.exe`)}
			},
			&rest_model.PostureCheckProcessMultiPatch{Processes: processes(`C:\three.exe`)}),
	}
}

func postureOf(n *network, name, patched string, create func() rest_model.PostureCheckCreate, update func() rest_model.PostureCheckUpdate, patch rest_model.PostureCheckPatch) postureKind {
	return postureKind{name, bodies[rest_model.PostureCheckCreate, rest_model.PostureCheckUpdate, rest_model.PostureCheckPatch]{
		create: func(name string) rest_model.PostureCheckCreate {
			body := create()
			describePosture(body, name, n.attributes("safe"), tags())
			return body
		},
		update: func(name string) rest_model.PostureCheckUpdate {
			body := update()
			describePosture(body, name, n.attributes("safer"), nil)
			return body
		},
		patch:   func() rest_model.PostureCheckPatch { return patch },
		patched: []string{patched, "version"},
		silent:  []string{"delete by nobody"},
	}}
}

func describePosture(body postureCommon, name string, attributes *rest_model.Attributes, tags *rest_model.Tags) {
	body.SetName(&name)
	body.SetRoleAttributes(attributes)
	body.SetTags(tags)
}
