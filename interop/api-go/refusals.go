package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-openapi/runtime"
	"github.com/openziti/edge-api/rest_model"
)

// A refusal is an error answer that the generated client knows for the operation.
type refusal interface {
	error
	Code() int
	GetPayload() *rest_model.APIErrorEnvelope
}

// refused fails unless err is a documented refusal with this status and code, and, when a
// field is named, a cause that names it.
func refused(err error, status int, code, field string) error {
	if err == nil {
		return fmt.Errorf("succeeded instead of %d %s", status, code)
	}
	var answer refusal
	if !errors.As(err, &answer) {
		return fmt.Errorf("wanted %d %s: %s", status, code, describe(err))
	}
	problem := answer.GetPayload().Error
	if answer.Code() != status || problem.Code != code {
		return fmt.Errorf("wanted %d %s: %s", status, code, describe(err))
	}
	if problem.Message == "" {
		return errors.New("the refusal has no message")
	}
	if field != "" && (problem.Cause == nil || problem.Cause.Field != field) {
		return fmt.Errorf("the cause does not name %s: %s", field, describe(err))
	}
	return nil
}

// undocumented fails unless err is a refusal with this status, which the clients do not know
// for the operation but the original has as well.
func undocumented(err error, status int) error {
	var answer *runtime.APIError
	if errors.As(err, &answer) && answer.Code == status {
		return nil
	}
	return fmt.Errorf("wanted %d: %s", status, describe(err))
}

// describe is the whole text of an error; the text of a generated client leaves out the cause.
func describe(err error) string {
	var unknown *runtime.APIError
	if errors.As(err, &unknown) {
		return fmt.Sprintf("undocumented status %d: %v", unknown.Code, err)
	}
	var answer refusal
	if errors.As(err, &answer) && answer.GetPayload() != nil {
		text, _ := json.Marshal(answer.GetPayload().Error)
		return fmt.Sprintf("%d %s", answer.Code(), text)
	}
	if err == nil {
		return "no error"
	}
	return err.Error()
}
