package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"bronzeward/audit"
	"bronzeward/policy"
)

// Reading the book page by page is one entry: that of the first request, which says what was
// asked. What follows names it in its cursor, and is held against it: an entry that is in the
// book, allowed, of this caller, of this act, of these parameters, of this epoch and not too
// old. So a cursor needs no seal. Whoever makes one up names no such entry, or one of their
// own; and the place in it gives nothing that the reading does not.

// readingLasts is how long a reading goes on under its first entry.
const readingLasts = time.Hour

// reading is one reading of the book.
type reading struct {
	act    string
	filter audit.Filter
	order  audit.Order
	own    bool
	follow bool
	whole  bool // records, which there are none of one's own alone
	// asked are the parameters that make it this reading and no other.
	asked url.Values
}

// mark begins the subject of a reading's entry. No other subject has a space in it.
func (rd *reading) mark() string {
	sum := sha256.Sum256([]byte(rd.asked.Encode()))
	return "reading " + hex.EncodeToString(sum[:16]) + " "
}

// subject is what the entry of the reading says.
func (rd *reading) subject() string {
	var parts []string
	for key, values := range rd.asked {
		for _, value := range values {
			parts = append(parts, key+"="+shown(key, value))
		}
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		parts = []string{"everything"}
	}
	return rd.mark() + plain(strings.Join(parts, " "), mostDetail)
}

// begin has a new reading judged, and its entry written.
func (c *call) begin(rd *reading) error {
	id, err := c.Book.Read(c.ctx, c.by, rd.act, rd.subject())
	if err != nil {
		return c.mayOwn(rd, err)
	}
	c.entry.set(id)
	c.judged = true
	return nil
}

// resume has a reading that goes on judged again, and its cursor held against the book. The
// place is given as the cursor has it.
func (c *call) resume(rd *reading, list, text string) (place string, err error) {
	key, p := parseCursor(list, 3, text)
	if p != nil {
		return "", p
	}
	session, epoch := parseID(key[0]), parseID(key[1])
	if session == uuid.Nil || epoch == uuid.Nil || !rd.isPlace(key[2]) {
		return "", badCursor("is not one that this list gave as next")
	}
	if err := c.Book.Continue(c.ctx, c.by, rd.act, rd.subject()); err != nil {
		return "", c.mayOwn(rd, err)
	}
	if epoch != c.Authority.Epoch() {
		return "", badCursor("is of another epoch")
	}
	row, err := c.Decisions.Get(c.ctx, session)
	if errors.Is(err, audit.ErrNotFound) {
		return "", badCursor("is not one that this list gave as next")
	}
	if err != nil {
		return "", unread(err)
	}
	if p := rd.sameAs(&row, c.by.Caller.Issuer, c.by.Caller.Subject, epoch); p != nil {
		return "", p
	}
	if c.Authority.Now().Sub(row.RecordedAt) > readingLasts {
		return "", badCursor("is of a reading that began more than an hour ago")
	}
	c.entry.set(audit.Receipt{ID: session, Leaf: audit.Leaf(row.Record, row.RecordedAt), RecordedAt: row.RecordedAt})
	c.judged = true
	return key[2], nil
}

// isPlace is whether a text is a place as this reading writes them.
func (rd *reading) isPlace(text string) bool {
	if rd.follow {
		_, ok := parseFollowed(text)
		return ok
	}
	at, err := audit.ParseCursor(text)
	return err == nil && !at.IsZero()
}

// sameAs refuses a cursor that names an entry which is not that of this reading. Whose it is
// or what it is instead is not told to anybody but its own caller.
func (rd *reading) sameAs(row *audit.Row, issuer, subject string, epoch uuid.UUID) *problem {
	foreign := badCursor("is not one that this list gave as next")
	e, err := audit.ParseEntry(row.Record)
	if err != nil || e.ID != row.ID || e.Caller.Issuer != issuer || e.Caller.Subject != subject || subject == "" {
		return foreign
	}
	if e.Kind != audit.KindHTTP || e.Verdict != audit.Allowed || e.Epoch != epoch {
		return foreign
	}
	var act policy.Act
	if json.Unmarshal(e.Facts, &act) != nil || act.Act != e.Method || !strings.HasPrefix(act.Subject, "reading ") {
		return foreign
	}
	if e.Method != rd.act || !strings.HasPrefix(act.Subject, rd.mark()) {
		return badCursor("is of a request with other parameters")
	}
	return nil
}

// cursor is where the reading goes on, under the entry it began with.
func (c *call) cursor(list, place string) string {
	return cursorOf(list, c.entry.get().ID.String(), c.Authority.Epoch().String(), place)
}

func badCursor(why string) *problem {
	p := malformed("the parameter cursor %s", why)
	p.hint = "ask again without it; after=ID goes on behind the last decision that was read"
	return p
}

// mayOwn adds what is left to somebody who may not read all of the book.
func (c *call) mayOwn(rd *reading, err error) error {
	var denied denial
	if rd.own || rd.whole || !errors.As(err, &denied) {
		return err
	}
	p := deniedProblem(denied)
	if p.code == noRole { // the law's own hint is about asking for the role
		p.hint = "own=true, or --own in bronzeward, shows your own calls"
	}
	return p
}

// noRole is the code for an act that none of the caller's roles may do. The law words it.
var noRole = fmt.Sprintf("BW-ACT-%03d", 3)

// parseID reads a UUID in its one spelling; the zero UUID for anything else.
func parseID(text string) uuid.UUID {
	id, err := uuid.Parse(text)
	if err != nil || id.String() != text {
		return uuid.Nil
	}
	return id
}

// keyedDigest is a digest as the gateway makes them.
var keyedDigest = regexp.MustCompile(`^(hmac-sha256|sha256):k[0-9]{1,9}:[0-9a-f]{64}$`)

// shown is a parameter's value as the book keeps it. A name of a person or machine, or a path,
// has letters of all sorts; what has a long run of letters and digits may be a token or a
// password that somebody pasted, and is left out.
func shown(key, value string) string {
	if key == "digest" && keyedDigest.MatchString(value) {
		return value
	}
	run := 0
	for _, r := range value {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			run++
		} else {
			run = 0
		}
		if run > mostRun {
			return noName
		}
	}
	return plain(value, mostQuoted)
}
