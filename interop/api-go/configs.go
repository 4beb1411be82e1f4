package main

import (
	"errors"

	management_api "github.com/openziti/edge-api/rest_management_api_client"
	"github.com/openziti/edge-api/rest_management_api_client/config"
	"github.com/openziti/edge-api/rest_model"
)

// configs is the kind of that name for one session.
func configs(api *management_api.ZitiEdgeManagement) kind[*rest_model.ConfigCreate, *rest_model.ConfigUpdate, *rest_model.ConfigPatch] {
	return kind[*rest_model.ConfigCreate, *rest_model.ConfigUpdate, *rest_model.ConfigPatch]{
		name: "configs",
		by:   "name",
		create: func(body *rest_model.ConfigCreate) (string, error) {
			return created(api.Config.CreateConfig(config.NewCreateConfigParams().WithConfig(body), nil))
		},
		detail: func(id string) (any, error) {
			answer, err := api.Config.DetailConfig(config.NewDetailConfigParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		list: func(q query) (page, error) {
			asked := config.NewListConfigsParams().WithFilter(q.filter).WithLimit(q.limit).WithOffset(q.offset)
			answer, err := api.Config.ListConfigs(asked, nil)
			if err != nil {
				return page{}, err
			}
			return page{answer.Payload.Data, answer.Payload.Meta}, nil
		},
		update: func(id string, body *rest_model.ConfigUpdate) error {
			_, err := api.Config.UpdateConfig(config.NewUpdateConfigParams().WithID(id).WithConfig(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.ConfigPatch) error {
			_, err := api.Config.PatchConfig(config.NewPatchConfigParams().WithID(id).WithConfig(body), nil)
			return err
		},
		remove: func(id string) error {
			_, err := api.Config.DeleteConfig(config.NewDeleteConfigParams().WithID(id), nil)
			return err
		},
	}
}

// configTypes is the kind of that name for one session.
func configTypes(api *management_api.ZitiEdgeManagement) kind[*rest_model.ConfigTypeCreate, *rest_model.ConfigTypeUpdate, *rest_model.ConfigTypePatch] {
	return kind[*rest_model.ConfigTypeCreate, *rest_model.ConfigTypeUpdate, *rest_model.ConfigTypePatch]{
		name: "config-types",
		by:   "name",
		create: func(body *rest_model.ConfigTypeCreate) (string, error) {
			return created(api.Config.CreateConfigType(config.NewCreateConfigTypeParams().WithConfigType(body), nil))
		},
		detail: func(id string) (any, error) {
			answer, err := api.Config.DetailConfigType(config.NewDetailConfigTypeParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		list: func(q query) (page, error) {
			asked := config.NewListConfigTypesParams().WithFilter(q.filter).WithLimit(q.limit).WithOffset(q.offset)
			answer, err := api.Config.ListConfigTypes(asked, nil)
			if err != nil {
				return page{}, err
			}
			return page{answer.Payload.Data, answer.Payload.Meta}, nil
		},
		update: func(id string, body *rest_model.ConfigTypeUpdate) error {
			_, err := api.Config.UpdateConfigType(config.NewUpdateConfigTypeParams().WithID(id).WithConfigType(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.ConfigTypePatch) error {
			_, err := api.Config.PatchConfigType(config.NewPatchConfigTypeParams().WithID(id).WithConfigType(body), nil)
			return err
		},
		remove: func(id string) error {
			_, err := api.Config.DeleteConfigType(config.NewDeleteConfigTypeParams().WithID(id), nil)
			return err
		},
	}
}

func tryConfigTypes(r *report, n *network) {
	schema := func(member string) any {
		return map[string]any{
			"type": "object", "additionalProperties": false,
			"properties": map[string]any{member: map[string]any{"type": "integer", "minimum": 1}},
		}
	}
	try(r, configTypes(n.admin), configTypes(n.nobody), n.name("config-type"), bodies[*rest_model.ConfigTypeCreate, *rest_model.ConfigTypeUpdate, *rest_model.ConfigTypePatch]{
		create: func(name string) *rest_model.ConfigTypeCreate {
			return &rest_model.ConfigTypeCreate{Name: &name, Schema: schema("port"), Tags: tags(), Target: ptr("router")}
		},
		update: func(name string) *rest_model.ConfigTypeUpdate {
			return &rest_model.ConfigTypeUpdate{Name: &name, Schema: schema("size")}
		},
		patch: func() *rest_model.ConfigTypePatch {
			return &rest_model.ConfigTypePatch{Tags: tags("changed")}
		},
		patched: []string{"tags"},
	})
}

func tryConfigs(r *report, n *network) {
	hosting := n.configType("host.v1")
	try(r, configs(n.admin), configs(n.nobody), n.name("config"), bodies[*rest_model.ConfigCreate, *rest_model.ConfigUpdate, *rest_model.ConfigPatch]{
		create: func(name string) *rest_model.ConfigCreate {
			return &rest_model.ConfigCreate{Name: &name, ConfigTypeID: &hosting, Data: hostConfig(80), Tags: tags()}
		},
		update: func(name string) *rest_model.ConfigUpdate {
			return &rest_model.ConfigUpdate{Name: &name, Data: hostConfig(81)}
		},
		patch: func() *rest_model.ConfigPatch {
			return &rest_model.ConfigPatch{Data: hostConfig(82)}
		},
		patched: []string{"data.port"},
	})
	r.check("create with data that breaks the schema", func() error {
		body := &rest_model.ConfigCreate{Name: ptr(n.name("broken")), ConfigTypeID: &hosting, Data: map[string]any{"protocol": "tcp", "address": "a", "port": "80"}}
		_, err := configs(n.admin).create(body)
		return refused(err, 400, "COULD_NOT_VALIDATE", "port")
	})
	r.check("create of no type", func() error {
		body := &rest_model.ConfigCreate{Name: ptr(n.name("broken")), ConfigTypeID: ptr("nothing"), Data: map[string]any{}}
		_, err := configs(n.admin).create(body)
		return refused(err, 400, "COULD_NOT_VALIDATE", "type")
	})
	r.check("delete of a type that is in use", func() error {
		id, err := configTypes(n.admin).create(&rest_model.ConfigTypeCreate{Name: ptr(n.name("in-use"))})
		if err != nil {
			return err
		}
		used, err := configs(n.admin).create(&rest_model.ConfigCreate{Name: ptr(n.name("uses")), ConfigTypeID: &id, Data: map[string]any{"any": "thing"}})
		if err != nil {
			return err
		}
		err = refused(configTypes(n.admin).remove(id), 409, "CAN_NOT_DELETE_REFERENCED_ENTITY", "")
		return errors.Join(err, configs(n.admin).remove(used), configTypes(n.admin).remove(id))
	})
}
