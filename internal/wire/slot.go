// SPDX-License-Identifier: Apache-2.0

package wire

import "strings"

// Slots is how many slots a cluster has.
const Slots = 1 << 14

// Slot returns the slot of a key: the CRC-16 of its Tag, with the polynomial 0x1021.
func Slot(key string) uint16 {
	var crc uint16
	tag := Tag(key)
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % Slots
}

// Tag returns what a cluster hashes of a key: the text between its first { and the next }, or the whole key
// if that is empty.
func Tag(key string) string {
	if _, rest, opened := strings.Cut(key, "{"); opened {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			return tag
		}
	}
	return key
}
