// SPDX-License-Identifier: Apache-2.0

package notify

// Len returns how many names are observed.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.subjects)
}

// Pipelines returns how many calls each pipeline has, for polls of so many calls each.
func Pipelines(calls ...int) (pipelines []int) {
	polls := make([]sentPoll, len(calls))
	for i := range polls {
		polls[i].calls = calls[i]
	}
	for len(polls) > 0 {
		n, size := pipeline(polls)
		pipelines, polls = append(pipelines, size), polls[n:]
	}
	return pipelines
}

// PollAll polls these subjects, as the collector does.
func (r *Registry) PollAll(subjects ...*Subject) { r.poll(subjects) }

// Prepare returns how many polls there would be of these subjects.
func (r *Registry) Prepare(subjects ...*Subject) int {
	polls, _ := r.prepare(subjects)
	return len(polls)
}

// Receive hands a message to the subject, as the dispatcher does.
func (s *Subject) Receive(message string) { (*listener)(s).OnMessage(message) }
