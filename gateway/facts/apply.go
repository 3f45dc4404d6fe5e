package facts

import (
	"math"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of machine.ApplyConfigurationRequest.
const (
	applyData    protowire.Number = 1
	applyMode    protowire.Number = 4
	applyDryRun  protowire.Number = 5
	applyTimeout protowire.Number = 6
)

// modeNames are the modes as talosctl spells them.
func modeName(mode machine.ApplyConfigurationRequest_Mode) (string, bool) {
	switch mode {
	case machine.ApplyConfigurationRequest_REBOOT:
		return "reboot", true
	case machine.ApplyConfigurationRequest_AUTO:
		return "auto", true
	case machine.ApplyConfigurationRequest_NO_REBOOT:
		return "no-reboot", true
	case machine.ApplyConfigurationRequest_STAGED:
		return "staged", true
	case machine.ApplyConfigurationRequest_TRY:
		return "try", true
	default:
		return "", false
	}
}

// parseApply reads a message that checkWire has passed strictly: every field is known
// and occurs at most once. Data stays in the message's buffer.
func parseApply(message []byte) (*ApplyRequest, error) {
	out := &ApplyRequest{Mode: "reboot"}
	var timeout int64
	for len(message) > 0 {
		number, wire, n := protowire.ConsumeTag(message)
		size := protowire.ConsumeFieldValue(number, wire, message[n:])
		value := message[n : n+size]
		message = message[n+size:]

		switch number {
		case applyData:
			out.Data, _ = protowire.ConsumeBytes(value)
		case applyMode:
			mode, _ := protowire.ConsumeVarint(value)
			name, ok := modeName(machine.ApplyConfigurationRequest_Mode(int32(mode)))
			if !ok {
				return nil, refuse(ReasonMode, "apply mode %d does not exist", int32(mode)).
					hint("talosctl apply-config --mode=no-reboot …")
			}
			out.Mode, out.ModeGiven = name, true
		case applyDryRun:
			dry, _ := protowire.ConsumeVarint(value)
			out.DryRun = protowire.DecodeBool(dry)
		case applyTimeout:
			inner, _ := protowire.ConsumeBytes(value)
			seconds, ok := parseDuration(inner)
			if !ok {
				return nil, refuse(ReasonMalformed, "the rollback time of the request is not a valid duration")
			}
			timeout = seconds
		}
	}
	if out.Mode == "try" {
		out.TryTimeoutSeconds = timeout
	}
	return out, nil
}

// maxDurationSeconds is the range of a protobuf Duration, about 10 000 years.
const maxDurationSeconds = 315_576_000_000

// parseDuration reads a google.protobuf.Duration in seconds, rounded up; it is false
// for values out of the type's range and for negative ones.
func parseDuration(message []byte) (int64, bool) {
	var seconds, nanos int64
	for len(message) > 0 {
		number, wire, n := protowire.ConsumeTag(message)
		size := protowire.ConsumeFieldValue(number, wire, message[n:])
		value, _ := protowire.ConsumeVarint(message[n : n+size])
		message = message[n+size:]
		switch number {
		case 1:
			seconds = int64(value)
		case 2:
			nanos = int64(value)
		}
	}
	if seconds < 0 || seconds > maxDurationSeconds || nanos < 0 || nanos > math.MaxInt32 || nanos >= 1_000_000_000 {
		return 0, false
	}
	if nanos > 0 {
		seconds++
	}
	return seconds, true
}
